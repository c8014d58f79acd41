-- What owners have to be told, as lists of lines. An index of the due lines took a seventh of Postgres's time over a
-- long report, and kept every update of a line off its page: it named the column that each of them changes.

create table settlement_due (
    id         bigint generated always as identity primary key,
    processor  text collate "C" not null,
    report_id  text collate "C" not null,
    lines      text[] not null,                      -- each due when it was listed; some may be decided by now
    line_count integer not null
);
insert into settlement_due (processor, report_id, lines, line_count)
select processor, report_id, array_agg(line_id), count(*)
from (select processor, report_id, line_id,
             (row_number() over (partition by processor, report_id order by line_id) - 1) / 5000 as list
      from settlement_line where posting = 'due') due
group by processor, report_id, list;
drop index settlement_line_due;

grant select, insert, delete on settlement_due to millrace_operator;
grant select on settlement_due to millrace_reader, millrace_console;
