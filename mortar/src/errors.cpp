// The errors of Mortar have no place in the user's source: their messages name files, tensors and options instead.
#include "mortar/errors.hpp"

namespace mortar {

Error::~Error() = default;

ModelError::ModelError(const std::string& message) : Error("ModelError", message, {}) {}
ModelError::~ModelError() = default;

CapacityError::CapacityError(const std::string& message) : Error("CapacityError", message, {}) {}
CapacityError::~CapacityError() = default;

RequestError::RequestError(const std::string& message) : Error("RequestError", message, {}) {}
RequestError::RequestError(const char* kind, const std::string& message) : Error(kind, message, {}) {}
RequestError::~RequestError() = default;

QueueFullError::QueueFullError(const std::string& message) : RequestError("QueueFullError", message) {}
QueueFullError::~QueueFullError() = default;

RanksError::RanksError(const std::string& message) : Error("RanksError", message, {}) {}
RanksError::~RanksError() = default;

}  // namespace mortar
