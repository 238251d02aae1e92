/* Compiled by scripts/data/make_fuzz_seeds.sh: relocations against constants and against a function. */

extern int outside(int);

static const char* const k_names[] = {"one", "two"};

const char* name_of(int index) { return k_names[outside(index) & 1]; }
