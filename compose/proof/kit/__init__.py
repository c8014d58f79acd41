"""What demo, soak and bench share: stacks of their own, narration, journals of what was acknowledged, evidence."""
