"""Code of users: data, prompts, verifiers and rewards of their own, called in processes that may be killed."""
