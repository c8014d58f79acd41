-- The eraser begins an erasure of its own where a database that was put back has a user again who was erased.
grant insert on erasure to millrace_social_eraser;
grant update (state, display_name, version, updated_at) on author to millrace_social_eraser;
