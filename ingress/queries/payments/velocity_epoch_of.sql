-- What epoch the velocity counters are to have, by that of their store; a new one is durable when this answers.
select velocity_epoch_of(%(held)s)
