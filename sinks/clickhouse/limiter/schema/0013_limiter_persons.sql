-- Tenants that are one person get the name that new rows have: the same row under it, then the old one goes. Again it changes
-- nothing: rows that are there replace themselves. Trap: without its table a name is that of the new value, in where, too.
insert into limit_decisions select * replace (concat(extract(r.tenant, '^[a-z]+'), '#', lower(hex(MD5(r.tenant)))) as tenant)
from limit_decisions as r where match(r.tenant, '^(user|staff):');
alter table limit_decisions delete where match(tenant, '^(user|staff):') settings mutations_sync = 1;

insert into limit_decisions_by_minute select * replace (concat(extract(r.tenant, '^[a-z]+'), '#', lower(hex(MD5(r.tenant)))) as tenant)
from limit_decisions_by_minute as r where match(r.tenant, '^(user|staff):');
alter table limit_decisions_by_minute delete where match(tenant, '^(user|staff):') settings mutations_sync = 1;

insert into limit_keys_by_minute select * replace (concat(extract(r.tenant, '^[a-z]+'), '#', lower(hex(MD5(r.tenant)))) as tenant)
from limit_keys_by_minute as r where match(r.tenant, '^(user|staff):');
alter table limit_keys_by_minute delete where match(tenant, '^(user|staff):') settings mutations_sync = 1;
