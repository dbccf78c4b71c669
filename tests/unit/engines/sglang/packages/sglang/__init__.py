"""In place of SGLang in a test's environment: `launch_server` alone."""
