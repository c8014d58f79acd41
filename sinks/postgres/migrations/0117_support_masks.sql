-- A support grant says which fields no answer under it has. Nobody changes them: who needs other ones asks for another grant.
alter table support_grant add column masked_fields text not null default '';  -- separated by spaces
alter table support_grant add constraint support_grant_masks_check
    check (masked_fields = '' or scopes !~ '\mresources:write\M');
comment on column support_grant.masked_fields is 'which fields no answer under it has, separated by spaces';
