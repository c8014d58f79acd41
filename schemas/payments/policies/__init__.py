"""What operators publish and owners decide by: one document for each kind of policy, read strictly."""
