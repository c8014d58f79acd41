-- Holds that no processor released have a case each, and one only: looked for whatever became of it.
create index repair_case_hold_not_released on repair_case (reference) where kind = 'hold_not_released';
