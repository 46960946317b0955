// The programs `tessera` and `mortar` of the Python package: their code is in the library of the package.
extern "C" int COMMAND(int count, char** words);

int main(int count, char** words) { return COMMAND(count, words); }
