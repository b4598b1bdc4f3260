"""What a build will make, decided before anything is encoded. Pure."""
