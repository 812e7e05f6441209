"""Where rows come from: run folders of the laboratory, performance logs of mlmq, any delimited text."""
