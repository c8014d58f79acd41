-- Each cache in front of the media origin is a consumer of every decision: who looks writes its row, as it knows the caches.
grant insert (decision_id, consumer, object_id, effect) on moderation_propagation to millrace_social_propagation;
