"""The Testmaster: the laboratory behind the web pages. Experiments are edited here, and run by a child process."""
