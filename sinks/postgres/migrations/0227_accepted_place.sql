-- Where a command that was answered 202 lies in Kafka: once its owner has read on past it and stored nothing, nothing comes
-- of it any more. Null in the notes of an ingress of an earlier release.
alter table accepted_request
    add column topic text collate "C",
    add column partition integer,
    add column "offset" bigint;
