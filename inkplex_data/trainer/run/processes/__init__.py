"""The processes of a run: how they meet, agree, and who of them hangs."""
