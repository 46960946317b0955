// The text of errors and the anchors of their vtables.
#include "tessera/base/error.hpp"

namespace tessera {

namespace {

/// "file:line: Kind: message"; the location is left out where it is unknown.
std::string compose(const char* kind, const std::string& message, const SourceLocation& where) {
  std::string text;
  if (where.known()) {
    text += where.file;
    text += ':';
    text += std::to_string(where.line);
    text += ": ";
  }
  text += kind;
  text += ": ";
  text += message;
  return text;
}

}  // namespace

Error::Error(const char* kind, const std::string& message, SourceLocation where)
    : std::runtime_error(compose(kind, message, where)), message_(message), where_(where) {}
Error::~Error() = default;

#define TESSERA_ERROR_CLASS(Name)                                                                \
  Name::Name(const std::string& message, SourceLocation where) : Error(#Name, message, where) {} \
  Name::~Name() = default;
#include "tessera/base/error_classes.def"

InternalError::InternalError(const std::string& message, SourceLocation where)
    : Error("InternalError", message + " (a bug in Tessera: please report it with the program that shows it)", where) {}
InternalError::~InternalError() = default;

}  // namespace tessera
