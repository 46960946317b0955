// The exception hierarchy. Every error says what was expected, what was found, where (the user's source line) and
// what to do; what() is the whole text, "file:line: Kind: message".
#pragma once
#include <stdexcept>
#include <string>

#include "tessera/base/source_location.hpp"

namespace tessera {

/// Base of everything that the library throws.
class Error : public std::runtime_error {
 public:
  /// `message` is the text without location; `where` is the user's source line (may be unknown).
  Error(const char* kind, const std::string& message, SourceLocation where);
  ~Error() override;
  const SourceLocation& where() const noexcept { return where_; }
  const std::string& message() const noexcept { return message_; }

 private:
  std::string message_;
  SourceLocation where_;
};

// ShapeError, BorrowError, ...: the rows of error_classes.def.
#define TESSERA_ERROR_CLASS(Name)                                         \
  class Name : public Error {                                             \
   public:                                                                \
    explicit Name(const std::string& message, SourceLocation where = {}); \
    ~Name() override;                                                     \
  };
#include "tessera/base/error_classes.def"

/// A broken promise of the library itself (a bug in Tessera), with the place in the library.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& message, SourceLocation where = SourceLocation::current());
  ~InternalError() override;
};

}  // namespace tessera
