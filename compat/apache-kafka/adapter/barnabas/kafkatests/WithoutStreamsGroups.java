package barnabas.kafkatests;

import java.lang.reflect.Method;
import java.util.regex.Pattern;

import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.InvocationInterceptor;
import org.junit.jupiter.api.extension.ReflectiveInvocationContext;

/**
 * Fails at once where a test runs with {@code group.protocol=streams}, which Barnabas does not have yet. Kafka Streams
 * would wait for the group in close(), which has no limit and cannot be interrupted: the rest of the class would not run.
 */
public final class WithoutStreamsGroups implements InvocationInterceptor {
    private static final Pattern WITH = Pattern.compile("groupProtocol=streams|(useNew|streams)Protocol(Enabled)?=true");

    @Override
    public void interceptTestTemplateMethod(Invocation<Void> invocation, ReflectiveInvocationContext<Method> method,
            ExtensionContext context) throws Throwable {
        if (WITH.matcher(context.getDisplayName()).find()) throw new AssertionError("the test needs streams groups");
        invocation.proceed();
    }
}
