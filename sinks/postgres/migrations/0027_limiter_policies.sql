-- Policies that decide without counting have no capacity; a snapshot names the key that signed it.

alter table policy drop constraint policy_capacity_check;
alter table policy add constraint policy_capacity_check check (capacity >= 0);
-- Null: signed before the column came. The publisher signs again when it is not the key in use.
alter table policy_snapshot add column key_id text collate "C";
