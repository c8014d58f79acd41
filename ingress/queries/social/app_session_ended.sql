-- Whether somebody signed out of a session. Primary key; asked with every page.
select 1 from app_session_ended where session_id = %(id)s
