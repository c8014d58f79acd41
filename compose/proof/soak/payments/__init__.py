"""The soak of payments: plans and who carries them out, what stands around them, and the verdict."""
