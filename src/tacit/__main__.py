"""``python -m tacit``: the command line where ``tacit`` itself is not on the path."""

from tacit.cli.main import main

if __name__ == "__main__":
    main()
