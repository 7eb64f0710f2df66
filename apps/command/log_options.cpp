#include "apps/command/log_options.hpp"

#include <spdlog/formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace zerolock {

namespace {

/// {"time": seconds since 1970, "level": "info", "message": "..."}
class JsonFormatter : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    const auto since_epoch = std::chrono::duration<double>(message.time.time_since_epoch()).count();
    const nlohmann::ordered_json object = {
        {"time", since_epoch},
        {"level", std::string(spdlog::level::to_string_view(message.level).data())},
        {"message", std::string(message.payload.begin(), message.payload.end())}};
    const std::string text = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    line.append(text.data(), text.data() + text.size());
  }
  [[nodiscard]] std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

}  // namespace

void LogOptions::declare(OptionTable& table) {
  table.choice("log-level", level,
               {{"debug", LogLevel::debug},
                {"info", LogLevel::info},
                {"warn", LogLevel::warn},
                {"error", LogLevel::error}},
               "what to say on stderr");
  table.flag("log-json", json, "log lines on stderr as JSON objects");
}

void start_log(const LogOptions& options) {
  auto logger =
      std::make_shared<spdlog::logger>("zerolock", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  if (options.json) {
    logger->set_formatter(std::make_unique<JsonFormatter>());
  } else {
    logger->set_pattern("%H:%M:%S %l: %v");
  }
  switch (options.level) {
    case LogLevel::debug:
      logger->set_level(spdlog::level::debug);
      break;
    case LogLevel::info:
      logger->set_level(spdlog::level::info);
      break;
    case LogLevel::warn:
      logger->set_level(spdlog::level::warn);
      break;
    case LogLevel::error:
      logger->set_level(spdlog::level::err);
      break;
  }
  spdlog::set_default_logger(logger);
}

}  // namespace zerolock
