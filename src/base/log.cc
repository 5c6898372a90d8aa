#include "convoy/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "convoy/base/names.h"

namespace convoy {

struct Log::Sink {
  spdlog::logger logger;
};

namespace {

spdlog::level::level_enum to_spdlog(Log::Level level) {
  switch (level) {
    case Log::Level::debug:
      return spdlog::level::debug;
    case Log::Level::info:
      return spdlog::level::info;
    case Log::Level::warning:
      return spdlog::level::warn;
    case Log::Level::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

Log::Log(std::string prefix, Level threshold)
    : sink_(std::make_shared<Sink>(
          Sink{spdlog::logger(prefix, std::make_shared<spdlog::sinks::stderr_sink_mt>())})) {
  sink_->logger.set_level(to_spdlog(threshold));
  sink_->logger.set_pattern(prefix.empty() ? "[%H:%M:%S] %l: %v" : "[%H:%M:%S %n] %l: %v");
  sink_->logger.flush_on(spdlog::level::debug);
}
Log::~Log() = default;
Log::Log(const Log&) = default;
Log& Log::operator=(const Log&) = default;

void Log::debug(std::string_view text) const { sink_->logger.debug(printable_lines(text)); }
void Log::info(std::string_view text) const { sink_->logger.info(printable_lines(text)); }
void Log::warning(std::string_view text) const { sink_->logger.warn(printable_lines(text)); }
void Log::error(std::string_view text) const { sink_->logger.error(printable_lines(text)); }

}  // namespace convoy
