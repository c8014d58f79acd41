-- Several labels of one object beside each other, each with its decision, the version of its policy, and its own end.

-- Whether what was in force stays so beside the decision; null: by an owner that knows of one label alone.
alter table moderation_decision add column beside boolean;

-- What readers of an object are told. Written with the decision that gives or takes it, by the owner of its case.
create table moderation_label (
    object_id      text collate "C" not null,
    label          text not null,
    decision_id    text collate "C" not null,
    policy_version bigint not null,
    expires_at     text,
    ends_at        timestamptz,
    version        bigint not null check (version >= 1),  -- of its decision among those about the object
    primary key (object_id, label)
);
create index moderation_label_ends on moderation_label (ends_at) where ends_at is not null;

insert into moderation_label (object_id, label, decision_id, policy_version, expires_at, ends_at, version)
select d.object_id, d.label, d.decision_id, d.policy_version, d.expires_at, decision_ends_at(d.expires_at), d.version
from moderation_current c join moderation_decision d using (decision_id)
where c.effect = 'label' and d.label is not null;

-- What an owner of an earlier release decides supersedes every label, as it did.
create function moderation_label_alone() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    delete from moderation_label where object_id = new.object_id;
    insert into moderation_label (object_id, label, decision_id, policy_version, expires_at, ends_at, version)
    select new.object_id, new.label, new.decision_id, new.policy_version, new.expires_at, decision_ends_at(new.expires_at),
           new.version
    where new.decision = 'label' and new.label is not null;
    return null;
end $$;
create trigger decision_labels_alone after insert on moderation_decision for each row when (new.beside is null)
    execute function moderation_label_alone();

grant select, insert, delete on moderation_label to millrace_social_owner;
grant select on moderation_label to millrace_ingress, millrace_operator, millrace_reader, millrace_social_propagation;
