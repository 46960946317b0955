#include "generate/cpp_text.hpp"
namespace tessera::generate {
std::string to_cpp(const Program&) { return {}; }
}
