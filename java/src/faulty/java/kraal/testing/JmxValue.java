package kraal.testing;

import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Prints an attribute of an MBean of another process, like a monitoring tool. */
public final class JmxValue {
    private JmxValue() {
    }

    /** The arguments are a port on the loopback interface, the MBean's name and the attribute's name. */
    public static void main(String[] args) throws Exception {
        JMXServiceURL url = new JMXServiceURL("service:jmx:rmi:///jndi/rmi://127.0.0.1:" + args[0] + "/jmxrmi");
        try (JMXConnector connector = JMXConnectorFactory.connect(url)) {
            System.out.println(connector.getMBeanServerConnection().getAttribute(new ObjectName(args[1]), args[2]));
        }
    }
}
