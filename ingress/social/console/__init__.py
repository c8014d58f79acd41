"""The moderation desk: social posts' pages of the console."""
