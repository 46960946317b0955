// The commands whose code is a part of this library (TESSERA_ONE_BINARY): what the programs of the package call.
#include "exported.hpp"

#ifdef TESSERA_HAS_TESSERA
int tessera_main_tessera(int count, char** words);  // main() of tools/main.cpp
TESSERA_PYTHON int tessera_py_command_tessera(int count, char** words) { return tessera_main_tessera(count, words); }
#endif
#ifdef TESSERA_HAS_MORTAR
int tessera_main_mortar(int count, char** words);  // main() of mortar/cli/main.cpp
TESSERA_PYTHON int tessera_py_command_mortar(int count, char** words) { return tessera_main_mortar(count, words); }
#endif
