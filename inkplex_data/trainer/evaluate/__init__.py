"""What a trained model scores and says on calls of a store."""
