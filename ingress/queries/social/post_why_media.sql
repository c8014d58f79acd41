-- Media of the viewer's own post that are not shown for want of a scan. Served by media_of_post.
select m.media_id, a.shown_state from media m join media_access a using (media_id)
where m.attached_post_id = %(id)s::text and m.owner_id = %(viewer)s::text and a.shown_state not in ('ready', 'taken_down')
order by m.media_id
