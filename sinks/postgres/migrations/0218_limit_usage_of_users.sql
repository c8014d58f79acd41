-- Totals of a user's own calls are found by its name, and go when it is erased.
create index limit_usage_of_users on limit_usage (split_part(limit_key, ':', 1))
    where limit_key >= 'user%3A' and limit_key < 'user%3B';
grant select, delete on limit_usage, limit_usage_shadow to millrace_social_eraser;
