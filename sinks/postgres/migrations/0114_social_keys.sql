-- The key of a user, under which its texts travel and are kept in stored answers. It is made with the first text. An
-- erasure leaves the row and destroys the key: nobody who comes late can make another one.
create table author_key (
    user_id text collate "C" primary key references author,
    key     bytea check (octet_length(key) = 32)  -- null: destroyed
);
grant select, insert on author_key to millrace_ingress;
grant select on author_key to millrace_social_owner, millrace_operator;
grant select, insert, update on author_key to millrace_social_eraser;
grant update (request_hash) on idempotency to millrace_social_eraser;
