-- What a report said of a line that an earlier one had brought with another content. The line stays as it was taken in, so
-- nothing else tells which report said what: not to those who give that file, nor which version a person has judged already.
create table settlement_line_change (
    processor text collate "C" not null,
    report_id text collate "C" not null,
    line_id   text collate "C" not null,
    type      text collate "C" not null,
    currency  text collate "C" not null,
    gross     bigint not null,
    fee       bigint not null,
    net       bigint not null,
    primary key (processor, line_id, report_id)
);
grant select, insert, update on settlement_line_change to millrace_operator;
grant select on settlement_line_change to millrace_reader;
comment on table settlement_line_change is 'what reports said of lines that earlier ones had brought with another content';
