-- Rules that sort the entries of bank statements, and what processors take by contract: published as the other policies.

alter table policy_version drop constraint policy_version_kind_check;
alter table policy_version add constraint policy_version_kind_check
    check (kind in ('risk', 'routing', 'fees', 'maintenance', 'bank_rules', 'processor_fees'));
