mod setup;
