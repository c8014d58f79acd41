-- Of two policies of equal scope that count by the same parts one would decide nothing: there is one. The place of a policy is
-- the hash of what makes two of them equal (``limit_policy.place_of``). Null: withdrawn, or published beside an equal one before.

alter table policy add column place text collate "C";
with places as (
    select policy_id, encode(sha256(convert_to(concat_ws(chr(31),
               scope ->> 'tenant', scope ->> 'user', scope ->> 'route', coalesce(scope ->> 'network', '*'),
               (select string_agg(part, ',' order by n) from json_array_elements_text(body::json -> 'per') with ordinality as e (part, n)),
               body::json ->> 'shadow'), 'UTF8')), 'hex') as place
    from policy where (body::json ->> 'withdrawn')::boolean is not true
)
update policy p set place = l.place
from (select distinct on (place) place, policy_id from places order by place, policy_id) l  -- the one that governed
where p.policy_id = l.policy_id;
alter table policy add constraint policy_place unique (place) deferrable;
grant update (place) on policy to millrace_limiter_owner;
