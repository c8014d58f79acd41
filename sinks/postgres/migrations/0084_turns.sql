-- Callers take turns: what is decided above next_offset, {offset: leader epoch}, while something below it waits.
alter table partition_owner add column ahead jsonb not null default '{}';
grant update (next_offset, ahead) on partition_owner to millrace_operator;

-- Callers that had others of their partition wait: the last window in which they did, and how often in a row.
create table noisy_caller (
    topic            text collate "C" not null,
    caller           text collate "C" not null,  -- as commands name it: tenant:tn_..., or staff
    partition        integer not null,
    share_percent    integer not null,           -- of what the partition's owner did
    units_left       bigint not null,            -- that waited at once: commands, and each KiB of them
    windows          integer not null,
    since            timestamptz not null,
    seen_at          timestamptz not null,
    move_proposed_at timestamptz,
    primary key (topic, caller, partition)
) with (fillfactor = 50);
grant select, insert, update on noisy_caller to millrace_tenancy_owner;
grant select on noisy_caller to millrace_operator, millrace_reader;
