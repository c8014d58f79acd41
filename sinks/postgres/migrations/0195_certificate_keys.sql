-- The public halves of the keys that certificates were signed with: a certificate is proved for ever, the file that signed it may
-- be lost. `millrace up` and `migrate` write them; no role of a running process does.
create table certificate_key (
    key_id     text collate "C" primary key,          -- the kid of its signatures
    public_key jsonb not null,
    known_at   timestamptz not null default now()
);
grant select on certificate_key to millrace_ingress, millrace_operator, millrace_reader;

comment on table certificate_key is 'The public keys that certificates of what was destroyed are verified with';
comment on column certificate_key.key_id is 'the kid of its signatures';
comment on column certificate_key.public_key is 'the key, as a JWK';
comment on column certificate_key.known_at is 'since when a home has had it';
