-- Keys that were destroyed with their tenant name its certificate: without one the mover took them for work that waits, for ever.
update tenant_key k set certificate_id = t.certificate_id
from tenant t
where t.tenant_id = k.tenant_id and t.state = 'deleted' and k.state = 'destroyed' and k.certificate_id is null;

-- Of calls that are refused again and again a minute has some rows, and one with their number.
comment on column tenant_audit.action is 'method and path; of one row of refused calls, how many more there were';
