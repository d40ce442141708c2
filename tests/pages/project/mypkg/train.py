"""The training script of docs/your_code.md as a module of the package."""

from train import main

if __name__ == "__main__":
    main()
