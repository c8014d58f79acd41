-- What the store of velocity counters cannot remember of itself: that it held something. One that has a lower epoch than
-- this, or none, has lost it, and begins a new one; a higher one is of a later time than this database's.

create table velocity_epoch (
    is_only boolean primary key default true check (is_only),
    epoch   bigint not null check (epoch > 0)
);
grant select on velocity_epoch to millrace_operator, millrace_reader;

-- The epoch that the counters are to have; p_held is that of the store, 0 = none.
create function velocity_epoch_of(p_held bigint)
returns bigint language plpgsql security definer set search_path = public, pg_temp as $$
declare
    known bigint;
begin
    perform pg_advisory_xact_lock(hashtextextended('millrace:velocity_epoch', 0));
    select epoch into known from velocity_epoch;
    if found and p_held = known then
        return known;
    end if;
    known := case when known is null then greatest(p_held, 1) when p_held > known then p_held else known + 1 end;
    insert into velocity_epoch (epoch) values (known) on conflict (is_only) do update set epoch = excluded.epoch;
    return known;
end $$;
revoke execute on function velocity_epoch_of(bigint) from public;
grant execute on function velocity_epoch_of(bigint) to millrace_ingress;
