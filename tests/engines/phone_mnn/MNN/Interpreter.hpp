// As the README beside this folder says.
#pragma once
#include <MNN/Tensor.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

enum MNNForwardType { MNN_FORWARD_CPU = 0 };

namespace MNN {
enum ErrorCode { NO_ERROR = 0 };
class Session;
const char* getVersion();

struct ScheduleConfig {
    std::vector<std::string> saveTensors;
    MNNForwardType type = MNN_FORWARD_CPU;
    int numThread = 4;
    struct Path {
        std::vector<std::string> inputs, outputs;
        int mode = 0;
    } path;
    MNNForwardType backupType = MNN_FORWARD_CPU;
    void* backendConfig = nullptr;
};

class OperatorInfo {
public:
    const std::string& name() const;
    const std::string& type() const;
    float flops() const;
};

using TensorCallBackWithInfo = std::function<bool(const std::vector<Tensor*>&, const OperatorInfo*)>;

class Interpreter {
public:
    static Interpreter* createFromFile(const char* file);
    ~Interpreter();
    Session* createSession(const ScheduleConfig& config);
    ErrorCode runSession(Session* session) const;
    ErrorCode runSessionWithCallBackInfo(const Session* session, const TensorCallBackWithInfo& before,
                                         const TensorCallBackWithInfo& end, bool sync = false) const;
    Tensor* getSessionInput(const Session* session, const char* name);
    Tensor* getSessionOutput(const Session* session, const char* name);
    const std::map<std::string, Tensor*>& getSessionInputAll(const Session* session) const;

private:
    void* net_;
};
}
