-- An export whose tenant's keys are destroyed while it runs ends as failed; before, it was tried again for ever.
alter table tenant_export drop constraint tenant_export_state_check;
alter table tenant_export add constraint tenant_export_state_check check (state in ('running', 'ready', 'failed'));
