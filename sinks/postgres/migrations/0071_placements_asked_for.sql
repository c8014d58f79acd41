-- What the mover looks for all the time, among a hundred thousand placements.
create index placement_asked_for on placement (placement_id) where state = 'provisioning';
