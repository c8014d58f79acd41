"""Operations as they are asked for and decided: cards and how they behave, holds, captures, fees."""
