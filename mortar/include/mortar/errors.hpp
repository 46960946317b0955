// The errors of Mortar: what was expected, what was found, and what to do.
#pragma once
#include <string>

#include "tessera/base/error.hpp"

namespace mortar {

/// Base of the errors of this library.
class Error : public tessera::Error {
 public:
  using tessera::Error::Error;
  ~Error() override;
};

/// A file of a model is missing, damaged, or describes something that is not supported. The message names the file, and
/// the field or tensor, with what was expected and what was found.
class ModelError : public Error {
 public:
  explicit ModelError(const std::string& message);
  ~ModelError() override;
};

/// The model, its context or a batch does not fit into the memory of the device. The message has the bytes that are
/// needed and available, and the largest context or batch that fits.
class CapacityError : public Error {
 public:
  explicit CapacityError(const std::string& message);
  ~CapacityError() override;
};

/// A request that cannot be served: a prompt longer than the context, sampling options out of range, messages that the
/// chat template rejects.
class RequestError : public Error {
 public:
  explicit RequestError(const std::string& message);
  ~RequestError() override;

 protected:
  RequestError(const char* kind, const std::string& message);
};

/// A request that cannot be taken now, because as many wait as may: it can be sent again later. The message has the
/// numbers.
class QueueFullError : public RequestError {
 public:
  explicit QueueFullError(const std::string& message);
  ~QueueFullError() override;
};

/// Devices that compute a model together cannot go on, because one of them has failed or does not answer. The message
/// has its rank and the cause. The engine ends: start it again.
class RanksError : public Error {
 public:
  explicit RanksError(const std::string& message);
  ~RanksError() override;
};

}  // namespace mortar
