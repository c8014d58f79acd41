-- Who of those that act in one name changed a tenant: the subject of the token. Of what was changed before nobody knows.
alter table tenant_history add column person text;
comment on column tenant_history.person is 'who did it; null = a process by itself, or changed before that was kept';
