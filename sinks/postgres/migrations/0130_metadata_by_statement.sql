-- Entries of new payments come with one statement for the whole batch. Beside a call and a statement for every row, with two
-- entries each: 18 us in place of 30 for a payment of a batch of 300. Definer, as metadata_entries_follow.
create function metadata_entries_of_new() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
    insert into metadata_entry (kind, merchant_id, key, value, created_at, id)
    select tg_table_name, f.merchant_id, e.key, e.value, f.created_at, f.id
    from fresh f, json_each_text(f.metadata::json) e where f.metadata <> '{}';
    return null;
end $$;
drop trigger payment_intent_metadata on payment_intent;
create trigger payment_intent_metadata after insert on payment_intent
    referencing new table as fresh for each statement execute function metadata_entries_of_new();
