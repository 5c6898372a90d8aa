// A parameter server's client, as training sees it. Torch-free.
#pragma once

#include <memory>

#include "convoy/server/client.h"
#include "convoy/train/batch_service.h"
#include "convoy/train/parameter_service.h"

namespace convoy::cli {

std::unique_ptr<train::ParameterService> service_of(std::unique_ptr<server::Client> client);
std::unique_ptr<train::BatchService> batch_service_of(std::unique_ptr<server::Client> client);

}  // namespace convoy::cli
