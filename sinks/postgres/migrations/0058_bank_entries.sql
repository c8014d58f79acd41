-- A bank's entry is known by its content, not by its place in a statement: banks give the same number again.

alter table settlement_line add column content text collate "C";  -- of a bank entry; null = taken in before, known by its place
create index settlement_line_content on settlement_line (processor, content) where content is not null;
