"""Methods that draw their own paths while they train, on TRL: GRPO with its variants, and RLOO."""
